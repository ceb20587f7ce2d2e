// Package namespace runs a program in a mount namespace whose /sys and /dev have more than
// the machine's: what lies in another directory comes in at given paths. An ordinary user
// may do so where the kernel allows user namespaces.
package namespace
