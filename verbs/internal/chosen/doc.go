// Package chosen has calls about queue pairs, and their completions, fail as verbs.CallFailure says, for
// providers that implement verbs.CallFailer. A provider asks Any, which costs a load, before all else.
package chosen
