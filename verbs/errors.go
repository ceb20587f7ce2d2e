package verbs

import (
	"errors"
	"fmt"
)

// Causes of errors. Test for them with errors.Is.
var (
	ErrQueueFull    = errors.New("queue is full: poll completions before posting more")
	ErrState        = errors.New("operation not allowed in this state")
	ErrInvalid      = errors.New("invalid argument")
	ErrAccess       = errors.New("memory access not allowed")
	ErrNotSupported = errors.New("not supported by this device")
	ErrBusy         = errors.New("object is in use")
	ErrClosed       = errors.New("object is closed")
	ErrTimeout      = errors.New("timed out")
	ErrNoDevice     = errors.New("no such device")
)

// OpError says which operation on which object failed, and why.
type OpError struct {
	Op     string // "post_send"
	Object string // "qp 17 of sim:lab/h0"
	Detail string // what exactly and what would mend it; may be empty
	Err    error  // one of the causes above, or a system error
}

func (e *OpError) Error() string {
	s := e.Op
	if e.Object != "" {
		s += " " + e.Object
	}
	s += ": " + e.Err.Error()
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

func (e *OpError) Unwrap() error { return e.Err }

// Errorf returns an OpError with a formatted detail. It is for providers.
func Errorf(op, object string, cause error, format string, args ...any) error {
	return &OpError{Op: op, Object: object, Detail: fmt.Sprintf(format, args...), Err: cause}
}
