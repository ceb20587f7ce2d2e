// Package ownnet takes a test's process into a network namespace of its own, so that its addresses, ports and interfaces are
// nobody else's: tests of several packages, and of several checkouts, run beside each other.
package ownnet
