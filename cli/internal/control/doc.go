// Package control has devices of a running process fail when another process asks for it, over a
// Unix socket: a request and its answer are one JSON document each, and a connection carries one
// of either.
package control
