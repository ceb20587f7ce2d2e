// Package watchertest is what tests of programs that watch connections have in common:
// network namespaces, connections between them, packets byte by byte, and this program
// run by a user with fewer capabilities.
package watchertest
