"""Demonstrations: networks of d2l.ai, which `chainrule train` trains."""
