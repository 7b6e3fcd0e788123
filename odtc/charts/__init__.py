"""Charts: SVG that a page or a file holds, with its legend and its data as a table."""
