// Package none is the absence of congestion control: line rate and an unlimited
// window, whatever happens. What keeps packets from being lost is priority flow
// control alone (the "PFC" rows of the TIMELY paper's Table 1), and what bounds
// the data in flight is the driver's cap.
package none
