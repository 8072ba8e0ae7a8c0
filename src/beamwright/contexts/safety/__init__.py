"""Safety: clearances for work, the forms they are written on, and the gate that asks for them."""
