// Package outfile writes the files that the program makes, each whole or not at
// all: beside its name first, and renamed when it is whole. What goes wrong before,
// such as a full disk, leaves an older file of that name as it was.
//
// Devices, pipes and sockets can't be renamed onto, and are written as the data
// come. The package knows nothing of what is written.
package outfile
