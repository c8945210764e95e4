"""What makes the documentation: the page of commands, drawings, outputs, a hook of MkDocs."""
