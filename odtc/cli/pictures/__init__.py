"""Pictures that commands write: SVG, and pages of HTML around them."""
