package rdmacm

import (
	"errors"
	"fmt"

	"github.com/sluice-rdma/sluice/roce"
)

// ErrDisconnected is Conn.Err of a connection that was released in order by either side.
var ErrDisconnected = errors.New("disconnected")

// RejectError says that the other side refused a connection or gave it up.
type RejectError struct {
	Reason  roce.RejectReason
	Info    []byte // additional reject information
	Private []byte // the other application's data: all the room there is, zeros included
}

func (e *RejectError) Error() string {
	return fmt.Sprintf("the other side refused the connection: %v", e.Reason)
}
