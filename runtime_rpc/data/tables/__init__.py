"""Tables of samples, a sample a row: CSV, Parquet, frames of pandas."""
