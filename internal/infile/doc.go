// Package infile reads what others wrote, files, objects of a store and peers' bytes, and
// documents in them, within limits that it states: what is larger, nested more deeply or
// made of more parts is refused with an error that says so. Any document of up to 4 MB is
// read or refused within 256 MiB of memory and 5 s.
//
// It must not know what documents mean.
package infile
