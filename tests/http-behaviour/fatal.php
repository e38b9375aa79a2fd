<?php
// Ends with an uncaught exception.
throw new RuntimeException('out of luck');
