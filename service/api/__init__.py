"""HTTP: routes, problems, strict bodies, and the document that describes them."""
