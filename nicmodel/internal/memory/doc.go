// Package memory is the host's memory as a NIC reaches it: regions and windows with their keys, the translation of
// addresses, and data on their way there.
package memory
