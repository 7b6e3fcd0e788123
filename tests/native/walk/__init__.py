"""Random walks: models, options and calls are drawn, and three trainers have to agree."""
