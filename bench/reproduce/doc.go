// Package reproduce runs the experiments of the papers that the engines come from,
// and holds what comes out against what the papers measured.
//
// What the papers measured is in papers.yaml. Each of its rows that can be run has a
// Row: which scenarios it runs, what is read from their results, and what must hold.
// Rows are in a file a paper (timely.go and so on). The scenarios are in
// scenario/reproduce, and take their systems from one file, scenario/systems.yaml.
//
// Finished runs are kept in a directory and used again; evaluating them is quick and
// reads nothing else. To add a row: write its scenario, add the Row to the paper's
// file, and run sluice reproduce ID.
package reproduce
