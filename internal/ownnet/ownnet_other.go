//go:build !linux

package ownnet

// Enter does nothing: there are no network namespaces.
func Enter() {}
