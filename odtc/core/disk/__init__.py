"""Files as odtc reads and writes them, and what is kept between runs."""
