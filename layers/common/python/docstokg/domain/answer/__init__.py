"""An answer and its proof: what may be quoted, cited, checked, and how sure one may be."""
