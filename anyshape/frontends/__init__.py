"""Front ends: each turns the graphs of one framework into `dhlo`, and imports that framework only there."""
