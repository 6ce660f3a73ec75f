"""Server-side apply: merging under ownership, sets of fields, managedFields. Pure: `verbs` stores the result."""
