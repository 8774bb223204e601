"""Bytes → records → groups: lines, compression, documents, archives, directories, remote files."""
