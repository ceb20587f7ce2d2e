// Package sweep runs a scenario many times over: for each combination of parameters,
// systems and seeds one cell. A plan lists the cells in a folder; any number of
// processes on any number of machines run them, each result a file of its own that is
// there whole or not at all, named by a hash of all that it depends on. So a process may be
// killed at any instant, and two may run the same cell: what is lost is the cell that was
// under way. Merge writes all results as one table, the same bytes in whatever order they
// were made.
//
// Results are functions of the program, the scenario and the seed alone, so Verify can
// run cells again, on another machine, and compare bytes.
//
// The functions of a Folder may be called concurrently, by processes too.
package sweep
