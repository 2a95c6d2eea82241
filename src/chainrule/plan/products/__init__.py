"""Matrix products: sums of products as calls of BLAS or in tiles."""
