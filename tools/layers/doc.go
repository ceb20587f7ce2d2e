// Command layers holds the tree to layers.yaml, which says of each package what
// it is, what it may import and whether it is pure.
//
//	go run ./tools/layers check   every package has a row and keeps to it
//	go run ./tools/layers docs    write the tables of docs/
//	go run ./tools/layers api     write what each public package declares into docs/api/
//	go run ./tools/layers hot     print the packages with hot paths
//
// It runs at the top of the tree.
package main

//go:generate sh -c "cd ../.. && go run ./tools/layers docs"
//go:generate sh -c "cd ../.. && go run ./tools/layers api"
