"""How the tools of the local platform are found or built: recipes, the Go that builds them, and the build itself."""
