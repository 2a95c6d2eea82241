"""Loop nests: which nodes one nest computes, and how."""
