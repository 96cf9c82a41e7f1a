"""What tests are made with: virtual time, real servers, planted bugs."""
