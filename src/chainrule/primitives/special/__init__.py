"""Special functions: erf, gamma and Bessel functions, and their derivatives."""
