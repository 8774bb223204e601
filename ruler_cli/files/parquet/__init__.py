"""A Parquet file as records, and annotated records as Parquet. pyarrow is an extra."""
