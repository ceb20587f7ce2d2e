// Package guest is the device's side of libsluice-virtual.so: the library that programs
// preload, and that takes what they do with /dev/infiniband to a Server. It carries
// requests and their answers over a socket, reaches the memory of the programs, and sees
// their stores into pages that it watches. What requests mean it does not know.
//
// A program never waits for the device but in a request, and nothing that it does, its
// end included, stops the device: its memory is reached by process_vm_readv and
// process_vm_writev, which fail where a pointer would fault.
package guest
