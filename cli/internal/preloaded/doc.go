// Package preloaded runs programs into which LD_PRELOAD loads a library: whether the
// dynamic loader would, and a child process that stands for its parent.
package preloaded
