package reproduce

//go:generate go run ../../cmd/sluice reproduce --quiet --from ../../docs/reproductions.json --markdown ../../docs/reproductions.md
