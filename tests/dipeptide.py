"""Alanine dipeptide as a PDB file, and a force field with implicit solvent that is fast."""

FIELD = ("amber99sbildn.xml", "amber99_obc.xml")
TEXT = """\
ATOM      1  H1  ACE     1       2.000   1.000  -0.000
ATOM      2  CH3 ACE     1       2.000   2.090   0.000
ATOM      3  H2  ACE     1       1.486   2.454   0.890
ATOM      4  H3  ACE     1       1.486   2.454  -0.890
ATOM      5  C   ACE     1       3.427   2.641  -0.000
ATOM      6  O   ACE     1       4.391   1.877  -0.000
ATOM      7  N   ALA     2       3.555   3.970  -0.000
ATOM      8  H   ALA     2       2.733   4.556  -0.000
ATOM      9  CA  ALA     2       4.853   4.614  -0.000
ATOM     10  HA  ALA     2       5.408   4.316   0.890
ATOM     11  CB  ALA     2       5.661   4.221  -1.232
ATOM     12  HB1 ALA     2       5.123   4.521  -2.131
ATOM     13  HB2 ALA     2       6.630   4.719  -1.206
ATOM     14  HB3 ALA     2       5.809   3.141  -1.241
ATOM     15  C   ALA     2       4.713   6.129   0.000
ATOM     16  O   ALA     2       3.601   6.653   0.000
ATOM     17  N   NME     3       5.846   6.835   0.000
ATOM     18  H   NME     3       6.737   6.359  -0.000
ATOM     19  C   NME     3       5.846   8.284   0.000
ATOM     20  H1  NME     3       4.819   8.648   0.000
ATOM     21  H2  NME     3       6.360   8.648   0.890
ATOM     22  H3  NME     3       6.360   8.648  -0.890
TER
END
"""
