// Package units holds the quantities that every part of Sluice exchanges: time,
// rate, size and packet sequence number, each a distinct type with its
// arithmetic and its text form.
//
// Time is an integer count of picoseconds, because a 64-byte frame at 800 Gbps
// lasts 640 ps and sums of rounded nanoseconds would drift. Rates are bits per
// second, sizes are bytes. Arithmetic that could overflow 64 bits is done in
// 128. Text always carries its unit: "400Gbps", "1.5us", "9KiB". A bare number
// is refused, save for zero.
package units
