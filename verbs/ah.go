package verbs

// AH is an address handle: an AddressVector that the device has resolved
// (ibv_ah). UD sends of queue pairs of the same PD name it in SendWR.AH. Any
// number of goroutines and requests may use one at a time.
type AH interface {
	// Close frees the handle. Requests posted with it are not affected; later
	// ones are refused with ErrInvalid.
	Close() error
}
