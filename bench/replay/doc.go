// Package replay records what rate engines get and what they answer, in a compact
// file, reads such files, and feeds one to engines. A Recorder takes acknowledgements
// where they happen, without waiting and without memory of its own for each; a Reader
// gives them back one after the other. docs/replay.md describes the format.
//
// Run feeds a recording to engines offline, and says what they would have allowed
// beside what was allowed. It is open loop: the recorded sender caused the signals.
// docs/replay.md says what follows from that.
package replay
