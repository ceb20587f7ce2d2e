// Package field describes the settings of a configuration by the tags of its fields, and says
// which field is at fault, so that whoever read the configuration can point at where it was
// written. A command takes settings by flags, which tags describe too. It knows no configuration.
package field

import (
	"errors"
	"fmt"
)

// Error is what is wrong with one field.
type Error struct {
	Of    string // whose configuration: "timely", "nic"
	Key   string // the field by its name in scenarios: "t_low", "pcie.tags"
	Value any    // what it is; nil if that is no fault of its value
	Want  string // what it has to be: "choose 0 to 65536"
	// Missing is set if the setting has to be given, and has the value that it has if it is not.
	Missing bool
}

// Error implements error.
func (e *Error) Error() string {
	if e.Value == nil {
		return e.Of + ": " + e.Key + ": " + e.Want
	}
	return e.Of + ": " + e.Key + " " + e.Fault()
}

// Fault is the message without the name of the field, for those who show that by
// themselves.
func (e *Error) Fault() string {
	if e.Value == nil {
		return e.Want
	}
	if s, ok := e.Value.(string); ok {
		return fmt.Sprintf("is %q: %s", s, e.Want)
	}
	return fmt.Sprintf("is %v: %s", e.Value, e.Want)
}

// Bad returns an *Error; want is a format for args.
func Bad(of, key string, value any, want string, args ...any) error {
	return &Error{Of: of, Key: key, Value: value, Want: fmt.Sprintf(want, args...)}
}

// Errors returns the Errors that err is made of, and the rest of it.
func Errors(err error) (fields []*Error, rest error) {
	var one *Error
	switch joined, ok := err.(interface{ Unwrap() []error }); {
	case ok:
		var others []error
		for _, e := range joined.Unwrap() {
			of, rest := Errors(e)
			fields, others = append(fields, of...), append(others, rest)
		}
		return fields, errors.Join(others...)
	case errors.As(err, &one):
		return []*Error{one}, nil
	}
	return nil, err
}
