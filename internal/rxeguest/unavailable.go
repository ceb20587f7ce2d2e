package rxeguest

// UnavailableError says why this machine can't run guests, and what to do.
type UnavailableError struct {
	Reason string
	Err    error // the cause, or nil
}

func (e *UnavailableError) Error() string {
	if e.Err == nil {
		return e.Reason
	}
	return e.Reason + ": " + e.Err.Error()
}

func (e *UnavailableError) Unwrap() error { return e.Err }
