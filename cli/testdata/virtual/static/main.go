// Command static is linked statically.
package main

func main() {}
