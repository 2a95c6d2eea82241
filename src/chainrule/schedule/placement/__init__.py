"""How the blocks of an arena get their offsets: quick strategies, local search, exact search."""
