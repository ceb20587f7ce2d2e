// Package outfile writes the program's files, each whole or not at all: first under
// a temporary name in the same folder, then renamed when complete. A failure before
// that, such as a full disk, leaves an older file of that name unchanged.
//
// Devices, pipes and sockets can't be renamed onto, and are written directly. The
// package does not interpret the data.
package outfile
