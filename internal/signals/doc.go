// Package signals records what rate engines get and what they answer, in a
// compact file, and reads such files. A Recorder takes acknowledgements where they
// happen, without waiting and without memory of its own for each; a Reader gives
// them back one after the other. docs/replay.md describes the format.
package signals
