"""A static site of results: one table, a page a model, a page a task; opens from disk, without network or server.

`content` makes the data from the table and its records, `panels` what a model's page has beside them, `site` the files.
`assets` holds the scripts and the vendored libraries, `templates` the pages' HTML.
"""

from hierbench.leaderboard.page.site import Built, build

__all__ = ["Built", "build"]
