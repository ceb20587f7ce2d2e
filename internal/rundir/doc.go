// Package rundir makes the temporary directories of a run, and ends what belongs to them:
// processes whose environment names such a directory. A directory goes with the process
// that made it: by Remove, or, if that process was killed, at the next Make of its kind.
package rundir
