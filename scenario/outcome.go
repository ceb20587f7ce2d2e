package scenario

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"github.com/sluice-rdma/sluice/ib"
)

// A word is a name of a value; lists of them are in the order in which errors name them.
type word[T comparable] struct {
	name string
	is   T
}

// wordOf finds the value of a name among words; none is the zero value, which has none.
func wordOf[T comparable](words []word[T], what, name string) (v T, err error) {
	if name == "" {
		return v, nil
	}
	names := make([]string, len(words))
	for i, w := range words {
		if w.name == name {
			return w.is, nil
		}
		names[i] = w.name
	}
	return v, fmt.Errorf("%q is no %s: choose one of %s", name, what, strings.Join(names, ", "))
}

// nameOf finds the name of a value; empty if it has none.
func nameOf[T comparable](words []word[T], v T) string {
	for _, w := range words {
		if w.is == v {
			return w.name
		}
	}
	return ""
}

// Errno is an errno of a call, by its name.
type Errno syscall.Errno

var errnos = []word[Errno]{
	{"EIO", Errno(syscall.EIO)}, {"ENOMEM", Errno(syscall.ENOMEM)}, {"EINVAL", Errno(syscall.EINVAL)}, {"EAGAIN", Errno(syscall.EAGAIN)},
	{"EFAULT", Errno(syscall.EFAULT)}, {"ENODEV", Errno(syscall.ENODEV)}, {"EBUSY", Errno(syscall.EBUSY)}, {"EPERM", Errno(syscall.EPERM)},
	{"ENOSPC", Errno(syscall.ENOSPC)}, {"ETIMEDOUT", Errno(syscall.ETIMEDOUT)},
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (e *Errno) UnmarshalText(b []byte) (err error) {
	*e, err = wordOf(errnos, "errno that a call fails with here", string(b))
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (e Errno) MarshalText() ([]byte, error) { return []byte(nameOf(errnos, e)), nil }

// Status is an error of a completion, by libibverbs' name without IBV_WC_.
type Status ib.WCStatus

var statuses = []word[Status]{
	{"LOC_LEN_ERR", Status(ib.WCLocLenErr)}, {"LOC_QP_OP_ERR", Status(ib.WCLocQPOpErr)}, {"LOC_PROT_ERR", Status(ib.WCLocProtErr)},
	{"WR_FLUSH_ERR", Status(ib.WCWRFlushErr)}, {"MW_BIND_ERR", Status(ib.WCMWBindErr)}, {"BAD_RESP_ERR", Status(ib.WCBadRespErr)},
	{"LOC_ACCESS_ERR", Status(ib.WCLocAccessErr)}, {"REM_INV_REQ_ERR", Status(ib.WCRemInvReqErr)}, {"REM_ACCESS_ERR", Status(ib.WCRemAccessErr)},
	{"REM_OP_ERR", Status(ib.WCRemOpErr)}, {"RETRY_EXC_ERR", Status(ib.WCRetryExcErr)}, {"RNR_RETRY_EXC_ERR", Status(ib.WCRNRRetryExcErr)},
	{"REM_ABORT_ERR", Status(ib.WCRemAbortErr)}, {"GENERAL_ERR", Status(ib.WCGeneralErr)},
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Status) UnmarshalText(b []byte) (err error) {
	*s, err = wordOf(statuses, "status of an error", string(b))
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (s Status) MarshalText() ([]byte, error) { return []byte(nameOf(statuses, s)), nil }

// Syndrome is a vendor's byte beside a status, written as logs show it, 0x81, or as a plain number.
type Syndrome uint8

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Syndrome) UnmarshalText(b []byte) error {
	n, err := strconv.ParseUint(string(b), 0, 8)
	if err != nil {
		return fmt.Errorf("%q is no syndrome: choose a byte, such as 0x81", b)
	}
	*s = Syndrome(n)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (s Syndrome) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%#x", uint8(s)), nil }
