"""The routes, one module per kind of thing. They translate; what they translate to is below them."""
